(** * Coins that show [k] heads

    One coin for each score shows heads with the chance [logistic (x - l)], independently
    of the others.  The chance that just the coins of a subset show heads is its weight
    times a number that is the same for all subsets of its size ([coins_outcome]).  So
    given that [k] coins show heads, they are distributed as GradTopK's random subset,
    whatever [l] is ([coins_law]). *)

From Coq Require Import Reals Lra Lia Arith List Sorted.
From TopK Require Import Sums Logistic GradTopK Covariance.
Import ListNotations.
Open Scope R_scope.

Fixpoint product (n : nat) (a : nat -> R) : R :=
  match n with
  | O => 1
  | S m => product m a * a m
  end.

(** The chance that the coins of [s] show heads and the others tails. *)
Definition outcome n (x : nat -> R) l s :=
  product n (fun i => if has i s then logistic (x i - l) else 1 - logistic (x i - l)).

(** The chance that a family of outcomes contains the one that happens. *)
Definition chance n x l (F : list (list nat)) :=
  fold_right (fun s a => outcome n x l s + a) 0 F.

Definition normaliser n (x : nat -> R) l := product n (fun i => 1 + exp (x i - l)).

Lemma product_S n a : product (S n) a = product n a * a n.
Proof. reflexivity. Qed.

Lemma product_ext n a b : (forall i, (i < n)%nat -> a i = b i) -> product n a = product n b.
Proof. induction n as [|n IH]; simpl; intros H; [reflexivity|]; rewrite IH, H; auto. Qed.

Lemma product_pos n a : (forall i, (i < n)%nat -> 0 < a i) -> 0 < product n a.
Proof.
  induction n as [|n IH]; simpl; intros H; [lra|apply Rmult_lt_0_compat; auto].
Qed.

Lemma normaliser_pos n x l : 0 < normaliser n x l.
Proof. apply product_pos; intros i _; pose proof (exp_pos (x i - l)); lra. Qed.

Lemma coin_heads t : logistic t * (1 + exp t) = exp t.
Proof.
  unfold logistic; rewrite exp_Ropp; pose proof (exp_pos t); field; lra.
Qed.

Lemma coin_tails t : (1 - logistic t) * (1 + exp t) = 1.
Proof. rewrite Rmult_minus_distr_r, coin_heads; ring. Qed.

Lemma not_has n k s i : In s (subsets n k) -> (n <= i)%nat -> has i s = false.
Proof.
  intros Hs Hi; apply Bool.not_true_is_false; rewrite has_spec; intros H.
  pose proof (subsets_below n k s Hs i H); lia.
Qed.

(** The last coin belongs to the subset or does not; times the normaliser it counts its
    exponential, or 1. *)
Lemma outcome_weight x l n : forall k s, In s (subsets n k) ->
  outcome n x l s * normaliser n x l = weight (fun i => exp (x i - l)) s.
Proof.
  unfold outcome, normaliser; induction n as [|n IH]; intros k s Hs.
  - destruct k; simpl in Hs; [destruct Hs as [<-|[]]; simpl; ring|destruct Hs].
  - assert (Hcase : (exists h, In s (subsets n h)) \/
      (exists h s', s = n :: s' /\ In s' (subsets n h))).
    { destruct k as [|k]; simpl in Hs.
      - left; exists 0%nat; destruct Hs as [<-|[]]; destruct n; now left.
      - apply in_app_or in Hs as [Hs|Hs]; [left; now exists (S k)|right].
        apply in_map_iff in Hs as [s' [<- Hs]]; now exists k, s'. }
    destruct Hcase as [[h Hh]|[h [s' [-> Hh]]]]; rewrite !product_S.
    + rewrite (not_has n h s n Hh (Nat.le_refl n)), <- (IH h s Hh).
      transitivity (product n (fun i => if has i s then logistic (x i - l)
          else 1 - logistic (x i - l)) * product n (fun i => 1 + exp (x i - l))
        * ((1 - logistic (x n - l)) * (1 + exp (x n - l)))); [ring|].
      rewrite coin_tails; ring.
    + assert (Hn : has n (n :: s') = true) by (apply has_spec; now left).
      rewrite Hn; simpl weight; rewrite <- (IH h s' Hh).
      rewrite (product_ext n (fun i => if has i (n :: s') then _ else _)
        (fun i => if has i s' then logistic (x i - l) else 1 - logistic (x i - l))).
      * transitivity (product n (fun i => if has i s' then logistic (x i - l)
            else 1 - logistic (x i - l)) * product n (fun i => 1 + exp (x i - l))
          * (logistic (x n - l) * (1 + exp (x n - l)))); [ring|].
        rewrite coin_heads; ring.
      * intros i Hi; unfold has at 1; simpl; fold (has i s').
        destruct (Nat.eqb_spec i n); [lia|reflexivity].
Qed.

Lemma weight_tilt x l s :
  weight (fun i => exp (x i - l)) s = weight (weights x) s * exp (- (INR (length s) * l)).
Proof.
  induction s as [|i s IH]; [simpl; rewrite Rmult_0_l, Ropp_0, exp_0; ring|].
  simpl length; rewrite S_INR; simpl weight; rewrite IH; unfold weights.
  replace (- ((INR (length s) + 1) * l)) with (- (INR (length s) * l) + - l) by ring.
  unfold Rminus; rewrite !exp_plus; ring.
Qed.

Theorem coins_outcome n x l k s : subset n k s ->
  outcome n x l s = weight (weights x) s * exp (- (INR k * l)) / normaliser n x l.
Proof.
  intros H; assert (HN := normaliser_pos n x l).
  assert (Hl : length s = k) by apply H.
  apply (subsets_complete n k) in H.
  rewrite <- Hl, <- weight_tilt, <- (outcome_weight x l n k s H); field; lra.
Qed.

(** The chance of [k] heads, and what is left of [l] given that there are [k]. *)
Theorem coins_law n x l k : (k <= n)%nat ->
  chance n x l (subsets n k) = Z (weights x) n k * exp (- (INR k * l)) / normaliser n x l /\
  forall s, subset n k s ->
    outcome n x l s / chance n x l (subsets n k) = weight (weights x) s / Z (weights x) n k.
Proof.
  intros Hk; assert (HN := normaliser_pos n x l).
  assert (HZ : 0 < Z (weights x) n k)
    by (apply Z_positive; [intros; apply exp_pos|exact Hk]).
  assert (He := exp_pos (- (INR k * l))).
  assert (HF : forall F, (forall s, In s F -> subset n k s) ->
    chance n x l F = total_weight (weights x) F * exp (- (INR k * l)) / normaliser n x l).
  { induction F as [|s F IH]; intros H; simpl; [field; lra|].
    rewrite IH by (intros; apply H; now right).
    rewrite (coins_outcome n x l k s) by (apply H; now left); field; lra. }
  assert (E : chance n x l (subsets n k)
    = Z (weights x) n k * exp (- (INR k * l)) / normaliser n x l)
    by (apply HF; intros s Hs; now apply (subsets_complete n k)).
  split; [exact E|]; intros s Hs; rewrite E, (coins_outcome n x l k s Hs).
  field; repeat split; lra.
Qed.
