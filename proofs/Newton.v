(** * Strict log-concavity, and nested selections

    The elementary symmetric polynomials of positive weights are strictly log-concave
    ([newton]), which is weaker than Newton's inequality with binomial factors.  The same
    for the weights without [i] says that every share of GradTopK grows with the budget
    ([share_nested]); the shares lie strictly between 0 and 1 ([share_in_unit]). *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums GradTopK.
Open Scope R_scope.

(** ** Sequences *)

(** Positive up to the place [m], zero beyond, and strictly log-concave. *)
Definition log_concave (a : nat -> R) m :=
  (forall j, (j <= m)%nat -> 0 < a j) /\
  (forall j, (m < j)%nat -> a j = 0) /\
  (forall j, (j < m)%nat -> a j * a (S (S j)) < a (S j) ^ 2).

(** The coefficients of the product with [1 + w t]. *)
Definition times (a : nat -> R) w j :=
  match j with O => a O | S h => a (S h) + w * a h end.

(** Two neighbouring inequalities, multiplied, give the mixed one. *)
Lemma mixed a m j : log_concave a m -> (j < m)%nat ->
  a j * a (S (S (S j))) <= a (S j) * a (S (S j)).
Proof.
  intros [Hp [Hz Hc]] Hj.
  destruct (Nat.le_gt_cases (S (S (S j))) m) as [H|H].
  - pose proof (Hc j Hj) as H1; pose proof (Hc (S j) ltac:(lia)) as H2.
    pose proof (Hp j ltac:(lia)); pose proof (Hp (S j) ltac:(lia)).
    pose proof (Hp (S (S j)) ltac:(lia)); pose proof (Hp (S (S (S j))) ltac:(lia)).
    set (p := a j) in *; set (q := a (S j)) in *; set (r := a (S (S j))) in *.
    set (s := a (S (S (S j)))) in *; clearbody p q r s.
    apply Rlt_le; apply Rmult_lt_reg_l with (q * r); [now apply Rmult_lt_0_compat|].
    assert (0 < p * r /\ 0 < q * s) by (split; now apply Rmult_lt_0_compat).
    replace (q * r * (p * s)) with ((p * r) * (q * s)) by ring.
    replace (q * r * (q * r)) with (q ^ 2 * r ^ 2) by ring.
    apply Rmult_le_0_lt_compat; lra.
  - rewrite (Hz (S (S (S j)))), Rmult_0_r by lia.
    destruct (Nat.le_gt_cases (S (S j)) m) as [H'|H'].
    + apply Rlt_le, Rmult_lt_0_compat; apply Hp; lia.
    + rewrite (Hz (S (S j))) by lia; lra.
Qed.

Lemma times_log_concave a m w : log_concave a m -> 0 < w -> log_concave (times a w) (S m).
Proof.
  intros Ha Hw; pose proof Ha as [Hp [Hz Hc]].
  assert (H0 : forall j, 0 <= a j).
  { intros j; destruct (Nat.le_gt_cases j m) as [H|H];
      [apply Rlt_le, Hp, H|rewrite Hz by exact H; lra]. }
  repeat split.
  - intros [|j] Hj; simpl; [apply Hp; lia|].
    pose proof (Hp j ltac:(lia)); pose proof (H0 (S j)); nra.
  - intros [|j] Hj; [lia|]; simpl; rewrite !Hz by lia; ring.
  - intros [|j] Hj; simpl.
    + (* a0 (a2 + w a1) < (a1 + w a0)^2 *)
      pose proof (Hp 0%nat ltac:(lia)); pose proof (H0 1%nat); pose proof (H0 2%nat).
      assert (a 0%nat * a 2%nat <= a 1%nat ^ 2).
      { destruct m as [|m]; [rewrite (Hz 2%nat), (Hz 1%nat) by lia; lra|].
        apply Rlt_le, Hc; lia. }
      assert (0 < (w * a 0%nat) ^ 2) by (apply pow_lt; now apply Rmult_lt_0_compat).
      assert (0 <= w * (a 0%nat * a 1%nat))
        by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]).
      nra.
    + pose proof (mixed a m j Ha ltac:(lia)) as Hm.
      assert (H1 : a j * a (S (S j)) < a (S j) ^ 2) by (apply Hc; lia).
      assert (H2 : a (S j) * a (S (S (S j))) <= a (S (S j)) ^ 2).
      { destruct (Nat.lt_ge_cases (S j) m) as [H|H]; [apply Rlt_le, Hc, H|].
        rewrite (Hz (S (S (S j)))) by lia; rewrite Rmult_0_r; apply pow2_ge_0. }
      assert (0 < w ^ 2 * (a (S j) ^ 2 - a j * a (S (S j))))
        by (apply Rmult_lt_0_compat; [now apply pow_lt|lra]).
      assert (0 <= w * (a (S j) * a (S (S j)) - a j * a (S (S (S j)))))
        by (apply Rmult_le_pos; lra).
      nra.
Qed.

Lemma log_concave_ext a b m : (forall j, a j = b j) -> log_concave a m -> log_concave b m.
Proof.
  intros E [H1 [H2 H3]]; repeat split; intros j Hj; rewrite <- ?E; auto.
Qed.

(** ** The polynomials *)

(** Multiply by one factor [1 + w t] after the other. *)
Lemma Z_log_concave w n : (forall i, (i < n)%nat -> 0 < w i) -> log_concave (Z w n) n.
Proof.
  induction n as [|n IH]; intros Hw.
  - repeat split; intros j Hj; try lia.
    + replace j with 0%nat by lia; rewrite Z_0; lra.
    + now apply Z_too_many.
  - apply (log_concave_ext (times (Z w n) (w n))).
    + intros [|j]; simpl; [now rewrite !Z_0|now rewrite Z_step].
    + apply times_log_concave; auto.
Qed.

(** Newton's inequality without its binomial factors, but strict. *)
Theorem newton w n k : (forall i, (i < n)%nat -> 0 < w i) -> (k < n)%nat ->
  Z w n k * Z w n (S (S k)) < Z w n (S k) ^ 2.
Proof. intros Hw Hk; now apply (Z_log_concave w n Hw). Qed.

(** The part of the subsets without [i]. *)
Definition without w n i k := Z w n k - Zi w n k i.

Lemma without_log_concave w n i : (i < S n)%nat -> (forall h, (h < S n)%nat -> 0 < w h) ->
  log_concave (without w (S n) i) n.
Proof.
  induction n as [|n IH]; intros Hi Hw.
  - apply (log_concave_ext (Z w 0)); [|apply Z_log_concave; intros; lia].
    replace i with 0%nat by lia; intros [|j]; unfold without;
      [rewrite !Z_0, Zi_0; ring|rewrite Z_step, Zi_step; simpl; ring].
  - destruct (Nat.eq_dec i (S n)) as [->|E].
    + apply (log_concave_ext (Z w (S n))); [|apply Z_log_concave; auto].
      intros [|j]; unfold without; [rewrite !Z_0, Zi_0; ring|].
      rewrite (Z_step w (S n)), (Zi_step w (S n)), Nat.eqb_refl; ring.
    + apply (log_concave_ext (times (without w (S n) i) (w (S n)))).
      * intros [|j]; unfold without, times; [rewrite !Z_0, !Zi_0; ring|].
        rewrite (Z_step w (S n)), (Zi_step w (S n)), (proj2 (Nat.eqb_neq i (S n)) E); ring.
      * apply times_log_concave; [apply IH; [lia|auto]|apply Hw; lia].
Qed.

(** ** The shares *)

Theorem share_in_unit w n k i : (i < n)%nat -> (0 < k < n)%nat ->
  (forall h, (h < n)%nat -> 0 < w h) -> 0 < share w n k i < 1.
Proof.
  intros Hi Hk Hw; destruct n as [|n]; [lia|]; destruct k as [|k]; [lia|].
  assert (HZ := Z_positive w (S n) Hw (S k) ltac:(lia)).
  destruct (without_log_concave w n i Hi Hw) as [Hp _].
  pose proof (Hp k ltac:(lia)) as H1; pose proof (Hp (S k) ltac:(lia)) as H2.
  unfold without in H1, H2; unfold share; split.
  - apply Rdiv_lt_0_compat; [|exact HZ]; rewrite (Zi_recursion w (S n) i Hi).
    apply Rmult_lt_0_compat; auto.
  - rewrite <- (Rinv_r (Z w (S n) (S k))) by lra.
    apply Rmult_lt_compat_r; [now apply Rinv_0_lt_compat|lra].
Qed.

(** With [a] for the polynomials without [i], the shares are [w a_(k-1) / (a_k + w a_(k-1))],
    and they grow because [a_(k-1) a_(k+1) < a_k^2]. *)
Theorem share_nested w n k i : (i < n)%nat -> (k < n)%nat ->
  (forall h, (h < n)%nat -> 0 < w h) -> share w n k i < share w n (S k) i.
Proof.
  intros Hi Hk Hw; destruct n as [|n]; [lia|].
  assert (HZ := Z_positive w (S n) Hw k ltac:(lia)).
  assert (HZ' := Z_positive w (S n) Hw (S k) ltac:(lia)).
  assert (Hwi := Hw i Hi).
  destruct (without_log_concave w n i Hi Hw) as [Hp [_ Hc]].
  assert (E : forall j, Z w (S n) j = without w (S n) i j + Zi w (S n) j i)
    by (intros; unfold without; ring).
  assert (Ei : forall j, Zi w (S n) (S j) i = w i * without w (S n) i j)
    by (intros; now apply Zi_recursion).
  set (a := without w (S n) i) in *.
  unfold share; apply (Rmult_lt_reg_r (Z w (S n) k * Z w (S n) (S k)));
    [now apply Rmult_lt_0_compat|].
  replace (Zi w (S n) k i / Z w (S n) k * (Z w (S n) k * Z w (S n) (S k)))
    with (Zi w (S n) k i * Z w (S n) (S k)) by (field; lra).
  replace (Zi w (S n) (S k) i / Z w (S n) (S k) * (Z w (S n) k * Z w (S n) (S k)))
    with (Zi w (S n) (S k) i * Z w (S n) k) by (field; lra).
  rewrite !E, Ei; destruct k as [|k].
  - rewrite Zi_0; pose proof (Hp 0%nat ltac:(lia)).
    assert (0 < w i * a 0%nat * a 0%nat) by (repeat apply Rmult_lt_0_compat; auto); lra.
  - rewrite Ei; pose proof (Hc k ltac:(lia)) as HN.
    assert (0 < w i * (a (S k) ^ 2 - a k * a (S (S k)))) by (apply Rmult_lt_0_compat; lra).
    lra.
Qed.
