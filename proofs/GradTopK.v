(** * GradTopK

    [Z n k] is the sum, over the subsets with [k] of the [n] scores, of the product of
    their weights; [Zi n k i] the part of it with the subsets that have [i].  The
    enumeration behind it is complete and has no repetitions ([subsets_complete]).
    Shown are the recursion, the sum of the shares, the case [k = 1], and that the
    shares are the gradient of [log Z] ([share_gradient]). *)

From Coq Require Import Reals Lra Lia Arith List Sorted.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Derivative.
Import ListNotations.
Open Scope R_scope.

(** ** Definitions *)

(** The subsets of [0, ..., n-1] with [k] elements, as decreasing lists: those without
    [n-1], then those with it. *)
Fixpoint subsets (n k : nat) : list (list nat) :=
  match n, k with
  | _, O => [[]]
  | O, S _ => []
  | S m, S h => subsets m k ++ map (cons m) (subsets m h)
  end.

(** The product of the weights of a subset, and the sum of these over a family. *)
Definition weight (w : nat -> R) (s : list nat) := fold_right (fun i a => w i * a) 1 s.
Definition total_weight (w : nat -> R) (F : list (list nat)) :=
  fold_right (fun s a => weight w s + a) 0 F.
Definition has (i : nat) (s : list nat) := existsb (Nat.eqb i) s.

Definition Z w n k := total_weight w (subsets n k).
Definition Zi w n k i := total_weight w (filter (has i) (subsets n k)).

(** The shares: for the scores [x] the weights are [e^x]. *)
Definition share w n k i := Zi w n k i / Z w n k.
Definition weights (x : nat -> R) i := exp (x i).

(** ** The enumeration *)

(** A subset is listed as its elements in decreasing order. *)
Definition subset n k (s : list nat) :=
  StronglySorted gt s /\ length s = k /\ forall i, In i s -> (i < n)%nat.

Lemma subsets_below n : forall k s, In s (subsets n k) -> forall i, In i s -> (i < n)%nat.
Proof.
  induction n as [|n IH]; intros k s Hs i Hi; destruct k as [|k]; simpl in Hs.
  - destruct Hs as [<-|[]]; destruct Hi.
  - destruct Hs.
  - destruct Hs as [<-|[]]; destruct Hi.
  - apply in_app_or in Hs as [Hs|Hs]; [specialize (IH _ _ Hs i Hi); lia|].
    apply in_map_iff in Hs as [s' [<- Hs]]; destruct Hi as [<-|Hi]; [lia|].
    specialize (IH _ _ Hs i Hi); lia.
Qed.

Lemma subset_empty n s : [] = s \/ False <-> subset n 0 s.
Proof.
  split.
  - intros [<-|[]]; repeat split; [constructor|intros i []].
  - intros [_ [Hl _]]; left; symmetry; now apply length_zero_iff_nil.
Qed.

Lemma NoDup_append (F G : list (list nat)) : NoDup F -> NoDup G ->
  (forall s, In s F -> ~ In s G) -> NoDup (F ++ G).
Proof.
  intros HF HG; induction HF as [|s F Hs HF IH]; intros H; [exact HG|].
  constructor; [|apply IH; intros t Ht; apply H; now right].
  rewrite in_app_iff; intros [H'|H']; [contradiction|].
  exact (H s (or_introl eq_refl) H').
Qed.

(** Every subset with [k] elements is listed, nothing else is, and none twice: a subset
    of [n + 1] scores has the last one as its first entry, or does without it. *)
Theorem subsets_complete n k :
  (forall s, In s (subsets n k) <-> subset n k s) /\ NoDup (subsets n k).
Proof.
  revert k; induction n as [|n IH]; intros [|k]; simpl.
  - split; [intros s; apply subset_empty|repeat constructor; intros []].
  - split; [|constructor]; intros s; split; [intros []|intros [_ [Hl Hb]]].
    destruct s as [|i s]; [discriminate|specialize (Hb i (or_introl eq_refl)); lia].
  - split; [intros s; apply subset_empty|repeat constructor; intros []].
  - destruct (IH (S k)) as [HS DS], (IH k) as [Hk Dk]; split.
    + intros s; rewrite in_app_iff, HS, in_map_iff; split.
      * intros [[H1 [H2 H3]]|[s' [<- H]]].
        { repeat split; auto; intros i Hi; specialize (H3 i Hi); lia. }
        apply Hk in H as [H1 [H2 H3]]; repeat split.
        -- constructor; [exact H1|apply Forall_forall; intros i Hi].
           specialize (H3 i Hi); lia.
        -- simpl; congruence.
        -- intros i [<-|Hi]; [lia|specialize (H3 i Hi); lia].
      * intros [H1 [H2 H3]]; destruct s as [|i s]; [discriminate|].
        inversion H1 as [|? ? Hs Hgt]; subst; rewrite Forall_forall in Hgt.
        assert (Hi := H3 i (or_introl eq_refl)); simpl in H2.
        destruct (Nat.eq_dec i n) as [->|E].
        -- right; exists s; split; [reflexivity|]; apply Hk.
           split; [exact Hs|split; [lia|]].
           intros j Hj; specialize (Hgt j Hj); lia.
        -- left; repeat split; auto.
           intros j [<-|Hj]; [lia|specialize (Hgt j Hj); lia].
    + apply NoDup_append; [exact DS| |].
      * apply FinFun.Injective_map_NoDup; [intros s t E; now injection E|exact Dk].
      * intros s Hs H; apply in_map_iff in H as [s' [<- _]].
        apply HS in Hs as [_ [_ Hb]]; specialize (Hb n (or_introl eq_refl)); lia.
Qed.

(** ** The recursion over n *)

Lemma total_app w F G : total_weight w (F ++ G) = total_weight w F + total_weight w G.
Proof. induction F as [|s F IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma total_cons w m F : total_weight w (map (cons m) F) = w m * total_weight w F.
Proof. induction F as [|s F IH]; simpl; [|rewrite IH]; ring. Qed.

Lemma filter_map_cons i m F :
  filter (has i) (map (cons m) F) =
  map (cons m) (if Nat.eqb i m then F else filter (has i) F).
Proof.
  induction F as [|s F IH]; simpl; [now destruct (Nat.eqb i m)|].
  rewrite IH; unfold has at 1; simpl; destruct (Nat.eqb i m); simpl; [reflexivity|].
  unfold has at 3; now destruct (existsb (Nat.eqb i) s).
Qed.

Lemma Zi_beyond w n k i : (n <= i)%nat -> Zi w n k i = 0.
Proof.
  intros Hi; unfold Zi.
  replace (filter (has i) (subsets n k)) with (@nil (list nat)); [reflexivity|].
  assert (H := subsets_below n k); induction (subsets n k) as [|s F IH]; [reflexivity|].
  simpl; replace (has i s) with false; [apply IH; intros; eapply H; eauto; now right|].
  symmetry; apply Bool.not_true_is_false; intros E.
  apply existsb_exists in E as [j [Hj E]]; apply Nat.eqb_eq in E; subst j.
  specialize (H s (or_introl eq_refl) i Hj); lia.
Qed.

Lemma Z_0 w n : Z w n 0 = 1.
Proof. unfold Z; destruct n; simpl; ring. Qed.

Lemma Zi_0 w n i : Zi w n 0 i = 0.
Proof. unfold Zi; destruct n; reflexivity. Qed.

Theorem Z_step w n k : Z w (S n) (S k) = Z w n (S k) + w n * Z w n k.
Proof. unfold Z; simpl; now rewrite total_app, total_cons. Qed.

Lemma Zi_step w n k i : Zi w (S n) (S k) i =
  if Nat.eqb i n then w n * Z w n k else Zi w n (S k) i + w n * Zi w n k i.
Proof.
  unfold Zi at 1; simpl; rewrite filter_app, total_app, filter_map_cons, total_cons.
  destruct (Nat.eqb_spec i n) as [->|_]; [|reflexivity].
  fold (Zi w n (S k) n); rewrite Zi_beyond by lia; unfold Z; ring.
Qed.

(** ** The identities *)

(** A subset with [i] is a smaller one without [i], times the weight of [i]. *)
Theorem Zi_recursion w n i : (i < n)%nat -> forall k,
  Zi w n (S k) i = w i * (Z w n k - Zi w n k i).
Proof.
  induction n as [|n IH]; intros Hi k; [lia|].
  rewrite Zi_step; destruct (Nat.eqb_spec i n) as [->|E].
  - destruct k as [|k]; [rewrite !Z_0, Zi_0; ring|].
    rewrite Zi_step, Nat.eqb_refl, Z_step; ring.
  - assert (Hi' : (i < n)%nat) by lia; rewrite (IH Hi').
    destruct k as [|k]; [rewrite !Z_0, !Zi_0; ring|].
    rewrite Zi_step, (proj2 (Nat.eqb_neq i n) E), Z_step, !(IH Hi'); ring.
Qed.

(** Every subset is counted once for each of its [k] elements. *)
Theorem Zi_sum w n k : ∑_(i < n) Zi w n k i = INR k * Z w n k.
Proof.
  revert k; induction n as [|n IH]; intros k.
  - destruct k; unfold Z; simpl; ring.
  - destruct k as [|k].
    + rewrite (sum_ext _ _ (fun _ => 0)), sum_zero by (intros; apply Zi_0); simpl; ring.
    + simpl sum; rewrite Zi_step, Nat.eqb_refl.
      rewrite (sum_ext n _ (fun i => Zi w n (S k) i + w n * Zi w n k i)).
      2: { intros i Hi; rewrite Zi_step; destruct (Nat.eqb_spec i n); [lia|reflexivity]. }
      rewrite sum_plus, sum_scal, !IH, Z_step, S_INR; ring.
Qed.

Lemma Z_1 w n : Z w n 1 = ∑_(i < n) w i.
Proof. induction n as [|n IH]; [reflexivity|]; rewrite Z_step, IH, Z_0; simpl; ring. Qed.

Lemma Z_too_many w n k : (n < k)%nat -> Z w n k = 0.
Proof.
  revert k; induction n as [|n IH]; intros k Hk; destruct k as [|k]; try lia; [reflexivity|].
  rewrite Z_step, !IH by lia; ring.
Qed.

Lemma Z_positive w n : (forall i, (i < n)%nat -> 0 < w i) ->
  forall k, (k <= n)%nat -> 0 < Z w n k.
Proof.
  induction n as [|n IH]; intros Hw k Hk.
  - replace k with 0%nat by lia; rewrite Z_0; lra.
  - assert (Hw' : forall i, (i < n)%nat -> 0 < w i) by auto.
    destruct k as [|k]; [rewrite Z_0; lra|]; rewrite Z_step.
    assert (0 < w n * Z w n k) by (apply Rmult_lt_0_compat; auto; apply IH; auto; lia).
    destruct (Nat.eq_dec k n) as [->|E]; [rewrite Z_too_many by lia; lra|].
    specialize (IH Hw' (S k) ltac:(lia)); lra.
Qed.

(** ** The shares *)

Theorem share_sum w n k : (k <= n)%nat -> (forall i, (i < n)%nat -> 0 < w i) ->
  ∑_(i < n) share w n k i = INR k.
Proof.
  intros Hk Hw; assert (H := Z_positive w n Hw k Hk); unfold share, Rdiv.
  rewrite (sum_ext n _ (fun i => / Z w n k * Zi w n k i)) by (intros; ring).
  rewrite sum_scal, Zi_sum; field; lra.
Qed.

Theorem share_softmax x n i : (i < n)%nat ->
  share (weights x) n 1 i = exp (x i) / ∑_(j < n) exp (x j).
Proof.
  intros Hi; unfold share; rewrite (Zi_recursion _ n i Hi 0), Z_0, Zi_0, Z_1.
  unfold weights; f_equal; ring.
Qed.

(** ** The gradient *)

Lemma Z_ext w w' n k : (forall i, (i < n)%nat -> w i = w' i) -> Z w n k = Z w' n k.
Proof.
  revert k; induction n as [|n IH]; intros k H; destruct k as [|k]; [| |now rewrite !Z_0|].
  - reflexivity.
  - reflexivity.
  - rewrite !Z_step, !IH, H; auto.
Qed.

Lemma Z_derivative x n i : forall k,
  is_derive (fun t => Z (weights (move x i t)) n k) (x i) (Zi (weights x) n k i).
Proof.
  induction n as [|n IH]; intros k; destruct k as [|k].
  - apply (is_derive_ext (fun _ => 1)); [intros; now rewrite Z_0|apply (is_derive_const 1)].
  - apply (is_derive_ext (fun _ => 0)); [reflexivity|apply (is_derive_const 0)].
  - rewrite Zi_0; apply (is_derive_ext (fun _ => 1)); [intros; now rewrite Z_0|].
    apply (is_derive_const 1).
  - apply (is_derive_ext (fun t => Z (weights (move x i t)) n (S k)
      + exp (move x i t n) * Z (weights (move x i t)) n k)).
    { intros; now rewrite Z_step. }
    rewrite Zi_step; destruct (Nat.eqb_spec i n) as [->|E].
    + (* only the factor moves *)
      assert (H : forall t h, Z (weights (move x n t)) n h = Z (weights x) n h).
      { intros t h; apply Z_ext; intros j Hj; unfold weights, move.
        destruct (Nat.eqb_spec j n); [lia|reflexivity]. }
      apply (is_derive_ext (fun t => Z (weights x) n (S k) + exp t * Z (weights x) n k)).
      { intros t; rewrite !H; unfold move; now rewrite Nat.eqb_refl. }
      change (weights x n) with (exp (x n)); auto_derive; [exact I|ring].
    + assert (Em : forall t, move x i t n = x n).
      { intros t; unfold move; destruct (Nat.eqb_spec n i); [lia|reflexivity]. }
      apply (is_derive_ext (fun t => Z (weights (move x i t)) n (S k)
        + exp (x n) * Z (weights (move x i t)) n k)); [intros; now rewrite Em|].
      apply (is_derive_plus (fun t => Z (weights (move x i t)) n (S k))
        (fun t => exp (x n) * Z (weights (move x i t)) n k)); [apply IH|].
      apply (is_derive_scal (fun t => Z (weights (move x i t)) n k)), IH.
Qed.

(** The shares are the partial derivatives of [log Z]. *)
Theorem share_gradient x n k i : (k <= n)%nat ->
  is_derive (fun t => ln (Z (weights (move x i t)) n k)) (x i) (share (weights x) n k i).
Proof.
  intros Hk; assert (Hp : 0 < Z (weights x) n k)
    by (apply Z_positive; [intros; apply exp_pos|exact Hk]).
  assert (E : Z (weights (move x i (x i))) n k = Z (weights x) n k).
  { apply Z_ext; intros j _; unfold weights, move; now destruct (Nat.eqb_spec j i) as [->|_]. }
  unfold share, Rdiv; apply (is_derive_comp ln (fun t => Z (weights (move x i t)) n k)).
  - rewrite E; now apply is_derive_Reals, derivable_pt_lim_ln.
  - apply Z_derivative.
Qed.
